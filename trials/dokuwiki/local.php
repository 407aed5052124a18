<?php
$conf['title'] = 'Annas Wiki';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['savedir'] = dirname(__DIR__) . '/data';
// Pages by name: /doku.php/name
$conf['userewrite'] = 2;
$conf['updatecheck'] = 0;
$conf['youarehere'] = 1;
